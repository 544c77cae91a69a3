// The helper program of one job with a terminal, where script(1) is missing: node terminal-shim <script> <cols> <rows>.
// It owns the PTY and pumps: stdin (a FIFO that never ends) to the terminal, the terminal to stdout (the log file).
// The wrapper inside the terminal writes the exit record; this program only has to see all output out.
import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { spawn } from '@lydell/node-pty';

const [script, cols, rows] = process.argv.slice(2);
/** node-pty may tell the exit before the last output: the end is quiet for so long after it. */
const quietMs = 200;

const terminal = spawn('/bin/sh', [script!], {
  name: 'xterm-256color',
  cols: Number(cols),
  rows: Number(rows),
  cwd: process.cwd(),
});
let over = false;
let end: NodeJS.Timeout | undefined;
terminal.onData((data) => {
  writeSync(1, data);
  if (over) end?.refresh();
});
terminal.onExit(() => {
  over = true;
  end = setTimeout(() => process.exit(0), quietMs);
});
// A socket, not a file stream: a file read that waits would keep the process from ending.
new Socket({ fd: 0, writable: false }).on('data', (chunk) => terminal.write(chunk.toString()));
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});
