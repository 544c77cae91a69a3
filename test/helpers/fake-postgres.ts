// A fake PostgreSQL server of any version: it implements enough of the wire protocol for a client that sends one query, and
// returns one row. The test packages do not provide real servers that old.
import { createServer, type Socket } from 'node:net';
import type { TestContext } from 'node:test';

const int32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
};
const int16 = (value: number): Buffer => int32(value).subarray(2);
const text = (value: string): Buffer => Buffer.from(`${value}\0`);
const message = (type: string, ...parts: Buffer[]): Buffer => {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body]);
};

const startupOk = (version: string): Buffer =>
  Buffer.concat([
    message('R', int32(0)),
    message('S', text('server_version'), text(version)),
    message('S', text('client_encoding'), text('UTF8')),
    message('K', int32(1), int32(1)),
    message('Z', Buffer.from('I')),
  ]);

const fatal = (reason: string): Buffer =>
  message(
    'E',
    text('SFATAL'),
    text('VFATAL'),
    text('C57P01'),
    text(`M${reason}`),
    Buffer.from([0]),
  );

type Row = Record<string, string | boolean>;
const oids = { string: 25, boolean: 16 };

/** The one row, for every query. */
function responsesFor(row: Row): Record<string, Buffer> {
  const names = Object.entries(row).map(([name, value]) => {
    const oid = oids[typeof value as keyof typeof oids];
    return Buffer.concat([
      ...[text(name), int32(0), int16(0), int32(oid), int16(-1), int32(-1), int16(0)],
    ]);
  });
  const values = Object.values(row).map((value) => {
    const bytes = Buffer.from(typeof value === 'string' ? value : value ? 't' : 'f');
    return Buffer.concat([int32(bytes.length), bytes]);
  });
  const columns = message('T', int16(names.length), ...names);
  const rows = Buffer.concat([
    message('D', int16(values.length), ...values),
    message('C', text('SELECT 1')),
  ]);
  const ready = message('Z', Buffer.from('I'));
  return {
    Q: Buffer.concat([columns, rows, ready]),
    P: message('1'),
    B: message('2'),
    D: columns,
    E: rows,
    S: ready,
  };
}

/** Returns the port and the received queries. */
export async function startFakePostgres(
  t: TestContext,
  version: string,
  row: Row,
  /** Error code sent right after the greeting to all clients but the first, as a stopping server does. */
  errorCode?: string,
): Promise<{ port: number; queries: string[] }> {
  const responses = responsesFor(row);
  const queries: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    let rest: Buffer = Buffer.alloc(0);
    let isStarted = false;
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk]);
      for (;;) {
        // Only the first message has no type.
        const at = isStarted ? 1 : 0;
        if (rest.length < at + 4 || rest.length < at + rest.readInt32BE(at)) return;
        const type = isStarted ? rest.toString('latin1', 0, 1) : 'startup';
        const body = rest.subarray(at + 4, at + rest.readInt32BE(at));
        rest = rest.subarray(at + rest.readInt32BE(at));
        if (type === 'X') return void socket.end();
        if (type === 'Q' || type === 'P') queries.push(body.toString());
        if (!isStarted && errorCode !== undefined && sockets.size > 1)
          return void socket.end(Buffer.concat([startupOk(version), fatal(errorCode)]));
        socket.write(isStarted ? (responses[type] ?? Buffer.alloc(0)) : startupOk(version));
        isStarted = true;
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as { port: number }).port, queries };
}
