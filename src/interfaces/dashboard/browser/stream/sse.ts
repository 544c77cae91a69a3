// Reads server-sent events from a response body. EventSource is not used: it hides the status of a rejected connection.
interface SseEvent {
  event: string;
  data: string;
  id?: string;
}

/** Yields the events of each piece of the body together. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<SseEvent[]> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + decoder.decode(value, { stream: true })).split('\n\n');
      rest = blocks.pop()!;
      // An empty list still shows that the connection is alive.
      yield blocks.map(parseBlock).filter((event) => event !== undefined);
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}

function parseBlock(block: string): SseEvent | undefined {
  const fields: { event?: string; id?: string } = {};
  const data: string[] = [];
  for (const line of block.split('\n')) {
    const mark = line.indexOf(':');
    if (mark <= 0) continue;
    const value = line.slice(mark + 1).replace(/^ /, '');
    const name = line.slice(0, mark);
    if (name === 'data') data.push(value);
    else if (name === 'event') fields.event = value;
    else if (name === 'id') fields.id = value;
  }
  if (data.length === 0) return undefined;
  const { event = 'message', id } = fields;
  return { event, data: data.join('\n'), ...(id === undefined ? {} : { id }) };
}
