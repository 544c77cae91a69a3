// `errand attach` and `errand run --tty`: keys, window size, detaching and the end of the job, over the socket and HTTP.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tempFolder } from '../helpers/folder.ts';
import { sharedServer } from '../helpers/shared-server.ts';
import { errandIn } from '../helpers/terminal.ts';
import { until } from '../helpers/until.ts';

const ctrlC = '\u0003';
const detach = '\u001d';

const shell = ['sh', '-c', 'PS1="prompt> " exec sh -i'];

test('run --tty forwards keys, ctrl-c and the window size, and exits with the exit code of the job', async (t) => {
  const server = await sharedServer();
  const job = ['run', '--tty', '--name', 'sh', '--', ...shell];
  const terminal = errandIn(t, server.home, job, { cols: 90, rows: 30 });
  await terminal.shows(/prompt>/);
  terminal.type('stty size\r');
  await terminal.shows(/^30 90/m);
  // Wait for output: an interactive shell loses a signal that arrives between fork and exec.
  terminal.type("sh -c 'echo begun-$((1 + 1)); exec sleep 1000'\r");
  await terminal.shows(/^begun-2/m);
  terminal.type(ctrlC);
  await terminal.shows(/\^C\s+prompt>/);
  terminal.type('echo $((6 * 7)) after\r');
  await terminal.shows(/^42 after/m);
  terminal.resize(70, 20);
  await until('the job knows the new size', async () => {
    terminal.type('stty size\r');
    return /^20 70/m.test((await terminal.screen()).join('\n'));
  });
  terminal.type('exit 5\r');
  assert.equal(await terminal.exited, 5);
});

test('attach replays the screen, forwards keys, detaches with the detach key and attaches again', async (t) => {
  const server = await sharedServer();
  const started = await server.cli('run', '-d', '--tty', '--name', 'repl', '--', ...shell);
  assert.equal(started.code, 0, started.stderr);
  await server.cli('send', 'repl', 'echo earlier-$((1 + 1))');
  const first = errandIn(t, server.home, ['attach', 'repl'], { cols: 100, rows: 33 });
  await first.shows(/earlier-2/);
  first.type('value=kept; echo now-$((2 + 2))\r');
  await first.shows(/now-4/);
  first.type(detach);
  assert.equal(await first.exited, 0);
  assert.match(first.drawn(), /\[detached\].*keeps running/);
  assert.match((await server.cli('show', 'repl')).stdout, /running/);

  const second = errandIn(t, server.home, ['attach', '@last', '--detach-key', 'ctrl-x']);
  second.type('echo $value-again\r');
  await second.shows(/^kept-again/m);
  second.type('exit 3\r');
  assert.equal(await second.exited, 3);
  const { exitCode } = (await server.cli('show', 'repl', '--json')).json<{ exitCode: number }>();
  assert.equal(exitCode, 3);
});

test('attach works with ERRAND_URL and a key', async (t) => {
  const server = await sharedServer();
  await server.cli('run', '-d', '--tty', '--name', 'far', '--', ...shell);
  const env = { ERRAND_URL: server.url, ERRAND_KEY: server.key };
  const terminal = errandIn(t, tempFolder(t), ['attach', 'far'], { env });
  await terminal.shows(/prompt>/);
  terminal.type('echo over-$((40 + 2))\r');
  await terminal.shows(/over-42/);
  terminal.type('exit 0\r');
  assert.equal(await terminal.exited, 0);
});

test('attach redraws a full-screen program and restores the terminal on detach', async (t) => {
  const server = await sharedServer();
  const draw = `printf '\\033[?1049h\\033[2J\\033[5;10Hhere'; read -r line; printf '\\033[?1049l'`;
  const terminal = errandIn(t, server.home, ['run', '-t', '--shell', draw]);
  await until(
    'the text is drawn in row 5',
    async () => (await terminal.screen())[4] === '         here',
  );
  terminal.type(detach);
  assert.equal(await terminal.exited, 0);
  const [drawn, after] = terminal.drawn().split('[detached]');
  assert.ok(drawn!.includes('\u001b[?1049l') && after !== undefined);
  const again = errandIn(t, server.home, ['attach', '@last']);
  await until('the text is drawn again', async () => (await again.screen())[4] === '         here');
  again.type('\r');
  assert.equal(await again.exited, 0);
});

test('attach fails without a local terminal, for a job without a terminal, and for an ended job', async (t) => {
  const server = await sharedServer();
  const script = await server.cli('attach', '@last');
  assert.deepEqual(
    [script.code, /requires a terminal/.test(script.stderr)],
    [2, true],
    script.stderr,
  );
  await server.cli('run', '-d', '--name', 'plain', '--', 'sleep', '300');
  const plain = errandIn(t, server.home, ['attach', 'plain']);
  assert.equal(await plain.exited, 5);
  assert.match(plain.drawn(), /has no terminal[^]*run --tty/);
  await server.cli('cancel', 'plain');
  const ended = errandIn(t, server.home, ['attach', 'plain']);
  assert.equal(await ended.exited, 5);
  assert.match(ended.drawn(), /has already ended with status cancelled/);
  const key = errandIn(t, server.home, ['attach', 'plain', '--detach-key', 'shift-x']);
  assert.equal(await key.exited, 2);
});
