// What a conversation can do with the changes of its runs.

import { textOf } from "./message.js";
import { openRedo, openRewind, openRun, openUndo } from "./rewind.js";

/** `review` is the ReviewLayout. */
export function runActions(review) {
  const { api, announce } = review;
  const showAll = () => review.review.touch();
  const undoRun = (change) => openUndo({ api, change, announce }).then(showAll);
  return {
    undoRun,
    redoRun: (change) => openRedo({ api, change, announce }).then(showAll),
    reviewRun(change) {
      const isOpen = change.files.some(({ pending, accepted }) => pending + accepted > 0);
      return isOpen ? review.reviewRuns([change.job_id]) : openRun({ api, change, undo: () => undoRun(change) });
    },
    /** Go back to before a message of a chat; `goBack()` moves the conversation. */
    rewind({ session }, { message }, goBack) {
      const ask = (request) => api.rewind(session, message.timestamp, request);
      return openRewind({ api, ask, message: textOf(message), goBack, announce }).then(showAll);
    },
  };
}
