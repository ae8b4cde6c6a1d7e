// Reads server-sent events.

/** The events of a body, each {name, data, id}; `id` is a number. */
export async function* eventsOf(body) {
  let text = "";
  let id = 0;
  const reader = body.pipeThrough(new TextDecoderStream()).getReader(); // not every browser can iterate over a stream
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
      if (fields.id) id = Number(fields.id);
      if (fields.data) yield { name: fields.event, data: fields.data, id };
    }
  }
}
