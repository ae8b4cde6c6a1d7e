// What people see: the transcript in the output channel, and short texts for messages. Text of models and tools is hostile:
// control characters, hidden characters and the markup of VS Code's labels are made visible or harmless.

import type { ApprovalAsked, ModelDetails, RpcEvent, StateData, ToolExecutionEnd } from "newel-client";

/** Control characters but tab and line feed; what reverses or hides text. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\u{e0000}-\u{e007f}]/gu;
/** Also what is drawn as nothing or as a space, and is part of much ordinary text. */
const BLANK = /[\r\u00a0\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\ufe00-\ufe0f\uffa0\ufff9-\ufffc]|[\u{e0100}-\u{e01ef}]/gu;
const OUTSIDE = "(outside of the sandbox: ";
const OUTPUT_LINES = 200;
const MESSAGE_CHARACTERS = 300;

/** The text with each hidden character as its code, and all line ends as line feeds. */
export function clean(text: string): string {
  return text
    .replace(/\r\n?/g, "\n")
    .replace(HIDDEN, code);
}

const code = (found: string): string => `\\u{${found.codePointAt(0)?.toString(16)}}`;

/** The text as it is, where VS Code would draw icons. */
export const icons = (text: string): string => text.replaceAll("$(", "$\u200b(");

/** One line for a label or a message, without links, commands and icons of VS Code. */
export function label(text: string, limit = MESSAGE_CHARACTERS): string {
  const line = clean(text).replace(/\s+/g, " ").trim().replaceAll("](", "] (").replaceAll("$(", "$ (");
  const points = [...line];
  return points.length > limit ? `${points.slice(0, limit - 1).join("")}…` : line;
}

/** What a tool call does, in one line. */
export function describeCall(name: string, args: Record<string, unknown>): string {
  const main = args["command"] ?? args["path"] ?? args["file_path"] ?? args["query"];
  return `${name} ${typeof main === "string" ? main : JSON.stringify(args)}`;
}

export interface Place {
  path: string;
  /** Both are counted from 1, the last line included. */
  firstLine: number;
  lastLine: number;
  text: string;
}

/** A prompt about a selection: the question, where it is, and the text between fences that the text itself does not contain. */
export function promptAbout(question: string, place: Place): string {
  const longest = Math.max(2, ...[...place.text.matchAll(/`+/g)].map((run) => run[0].length));
  const fence = "`".repeat(longest + 1);
  const lines = place.firstLine === place.lastLine ? `line ${place.firstLine}` : `lines ${place.firstLine}–${place.lastLine}`;
  const text = place.text.endsWith("\n") ? place.text : `${place.text}\n`;
  return `${question}\n\nThe selection, ${place.path}, ${lines}:\n\n${fence}\n${text}${fence}`;
}

/** The question of an approval, with its exact effect. */
export function question(asked: ApprovalAsked): { title: string; preview: string; isLong: boolean } {
  const preview = clean((asked.preview || JSON.stringify(asked.args, undefined, 2)).replace(BLANK, code)).trimEnd();
  const lines = preview.split("\n");
  const isLong = lines.length > 10 || lines.some((line) => line.length > 80);
  const where = preview.startsWith(OUTSIDE) ? " outside of the sandbox" : "";
  return { title: label(`Newel asks: ${asked.label}${where}`), preview, isLong };
}

export type Choice = { label: string; description?: string; decision: "once" | "always" | "rule" | "no" };

/** The answers that the user can choose, the refusal last. */
export function choices(asked: ApprovalAsked): Choice[] {
  const isServer = asked.kind === "server";
  const once: Choice = { label: isServer ? "Allow for This Session" : "Allow Once", decision: "once" };
  const always: Choice = { label: "Always Allow", description: "exactly this call, for this session", decision: "always" };
  const rule: Choice = { label: "Always Allow in This Project", description: asked.rule ?? "", decision: "rule" };
  const no: Choice = { label: "Decline", decision: "no" };
  return [once, ...(isServer ? [] : [always]), ...(asked.rule ? [rule] : []), no];
}

export function money(cost: number | null | undefined): string {
  return cost == null ? "" : `$${cost.toFixed(cost < 0.1 ? 4 : 2)}`;
}

/** What is known of a model, such as `200k · $3 / $15 per M · thinking`: the prices of input and output, `+` for higher ones beyond a size. */
export function describeModel({ contextWindow, inputPrice, outputPrice, hasTiers, thinking }: ModelDetails): string {
  const price = inputPrice == null ? "" : `$${inputPrice} / $${outputPrice ?? 0}${hasTiers ? "+" : ""} per M`;
  return [contextWindow ? count(contextWindow) : "", price, thinking ? "thinking" : ""].filter(Boolean).join(" · ");
}

/** `812`, `4.1k`, `200k`, `1M`. */
function count(number: number): string {
  if (number < 1_000) return `${number}`;
  const [size, unit] = number < 999_950 ? [number / 1_000, "k"] : [number / 1_000_000, "M"];
  return `${Number(size.toFixed(1))}${unit}`;
}

export type Activity = "idle" | "working" | "asking" | "ended";

/** The text of the status bar: model, state, cost. */
export function status(state: Pick<StateData, "model" | "cost"> | undefined, activity: Activity): string {
  const words = { idle: "", working: "working…", asking: "asks you", ended: "ended" };
  return ["Newel", label(state?.model ?? "", 40), words[activity], money(state?.cost)].filter(Boolean).join(" · ");
}

function outcome(event: ToolExecutionEnd): string {
  const code = event.details?.["exitCode"];
  if (event.isError) return "failed";
  return typeof code === "number" && code !== 0 ? `exit code ${code}` : "done";
}

/** Writes the events of runs as text to read. */
export class Transcript {
  readonly #append: (text: string) => void;
  /** Lines of output that each running call has shown. */
  readonly #shown = new Map<string, number>();
  /** Calls whose result has not come; one that is declined never starts. */
  readonly #started = new Set<string>();
  #atLineStart = true;

  constructor(append: (text: string) => void) {
    this.#append = append;
  }

  prompt(text: string): void {
    this.#line("");
    for (const line of clean(text).split("\n")) this.#line(`> ${line}`.trimEnd());
    this.#line("");
  }

  note(text: string): void {
    this.#line(clean(text));
  }

  event(event: RpcEvent): void {
    switch (event.type) {
      case "message_update":
        if (event.assistantMessageEvent.type === "text_delta") this.#write(clean(event.assistantMessageEvent.delta));
        break;
      case "message_end":
        if (event.message.role === "toolResult" && !this.#started.delete(event.message.toolCallId))
          this.#line(`● ${clean(event.message.toolName)}, not run\n  ${clean(event.message.output).trimEnd().replaceAll("\n", "\n  ")}`);
        if (event.message.role === "assistant" && event.message.errorMessage) this.note(`! ${event.message.errorMessage}`);
        this.#endLine();
        break;
      case "tool_execution_start":
        this.#line(`● ${clean(describeCall(event.toolName, event.args)).replaceAll("\n", "\n  ")}`);
        this.#started.add(event.toolCallId);
        this.#shown.set(event.toolCallId, 0);
        break;
      case "tool_execution_update":
        this.#output(event.toolCallId, event.delta);
        break;
      case "tool_execution_end":
        this.#endLine();
        if (event.isError) this.#line(`  ${clean(event.result).trimEnd().replaceAll("\n", "\n  ")}`);
        this.#line(`  ${outcome(event)} after ${(event.duration / 1000).toFixed(1)} s`);
        this.#shown.delete(event.toolCallId);
        break;
      case "retry":
        this.note(`The request failed and is repeated in ${Math.ceil(event.delay)} s: ${event.reason}`);
        break;
      case "model_routed":
        this.note(`Model: ${event.model} (${event.place}): ${event.reason}`);
        break;
      case "error":
        this.note(`${event.code === "progress" || event.code === "connection" ? "" : "! "}${event.message}`);
        break;
      case "agent_end":
        if (event.reason !== "done") this.note(`Ended: ${event.reason}${event.message ? `: ${event.message}` : ""}`);
        else if (event.cost != null) this.note(`Done, ${money(event.cost)}`);
        else this.#endLine();
        break;
    }
  }

  #output(id: string, delta: string): void {
    const shown = this.#shown.get(id) ?? 0;
    if (shown > OUTPUT_LINES) return;
    const lines = clean(delta).split("\n");
    const rest = lines.slice(0, OUTPUT_LINES - shown + 1);
    this.#write((this.#atLineStart ? "  " : "") + rest.join("\n  ").replace(/\n {2}$/, "\n"));
    this.#shown.set(id, shown + lines.length - 1 + (rest.length < lines.length ? 1 : 0));
    if (rest.length < lines.length) this.#line("  … more output, not shown");
  }

  #write(text: string): void {
    if (!text) return;
    this.#append(text);
    this.#atLineStart = text.endsWith("\n");
  }

  #endLine(): void {
    if (!this.#atLineStart) this.#write("\n");
  }

  #line(text: string): void {
    this.#endLine();
    this.#write(`${text}\n`);
  }
}
