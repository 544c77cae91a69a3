// Runs one job in a terminal where script(1) is missing: node terminal-shim <script> <cols> <rows>.
// It owns the PTY and copies stdin (a FIFO that never ends) to the terminal, and the terminal to stdout (the log file).
// The wrapper inside the terminal writes the exit record. This program only has to forward all output.
import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { spawn } from '@lydell/node-pty';
import { ownEnvironment } from './helper-environment.ts';

const [script, cols, rows] = process.argv.slice(2);
/** node-pty may report the exit before the last output, so this program exits only after this much silence. */
const quietMs = 200;

const env = ownEnvironment(process.env);
const terminal = spawn('/bin/sh', [script!], {
  name: 'xterm-256color',
  cols: Number(cols),
  rows: Number(rows),
  cwd: process.cwd(),
  env,
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
// A socket, not a file stream: a blocking file read would keep the process from exiting.
new Socket({ fd: 0, writable: false }).on('data', (chunk) => terminal.write(chunk.toString()));
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});
