// `errand serve`: the server in the foreground. With --json exactly one line when it is ready.
import { AppError } from '../../../errors.ts';
import { quoted } from '../../../runtime/shell.ts';
import { Client } from '../client.ts';
import { command, wholeNumber, type CommandContext } from '../command.ts';
import { findServer, refuseWindows } from '../connect.ts';
import { clientConfigs } from '../greeting.ts';
import { withoutEchoes } from '../interrupts.ts';
import type { RunningServer, ServeWish } from '../program.ts';

export const serve = command({
  summary: 'run the server in the foreground',
  flags: {
    port: { type: 'string', value: 'N', help: 'TCP port; 0 takes a free one' },
    host: { type: 'string', value: 'H', help: 'address to listen on (default 127.0.0.1)' },
    store: { type: 'string', value: 'postgres://…', help: 'a cluster instead of a file' },
    label: { type: 'string', multiple: true, value: 'NAME', help: 'what this node can do' },
    auto: { type: 'boolean', help: 'as fronts start it: private socket only, ends when idle' },
    json: { type: 'boolean', help: 'print one line of JSON when ready' },
  },
  async run(context, { values }) {
    refuseWindows(context.program);
    const port = wholeNumber(values.port, 'port');
    const wish: ServeWish = {
      ...(port === undefined ? {} : { port }),
      ...(values.host === undefined ? {} : { host: values.host }),
      ...(values.home === undefined ? {} : { home: values.home }),
      ...(values.store === undefined ? {} : { store: values.store }),
      ...(values.label === undefined ? {} : { labels: values.label }),
      ...(values.auto ? { auto: true } : {}),
    };
    // Signals count from the first moment: one that comes while the server starts stops it right after.
    const signalled = signals(context);
    const server = await startOrTakeOver(context, wish);
    if (!values.auto) greet(context, server, values.json === true);
    return signalled(server);
  },
});

/** A server that a front started in the background makes room for one in the foreground; its jobs go on. */
async function startOrTakeOver(context: CommandContext, wish: ServeWish): Promise<RunningServer> {
  const { program } = context;
  try {
    return await program.serve(wish);
  } catch (error) {
    const taken = error instanceof AppError && error.code === 'conflict' && !wish.auto;
    const socketPath = taken ? await findServer(program, wish.home) : undefined;
    if (!socketPath) throw error;
    const client = new Client({ socketPath });
    if ((await client.health()).auto !== true) throw error;
    await client.call('stop_server', {});
    for (let tries = 0; tries < 200; tries++) {
      await program.clock.sleep(50);
      try {
        return await program.serve(wish);
      } catch (again) {
        if (!(again instanceof AppError && again.code === 'conflict')) throw again;
      }
    }
    throw error;
  }
}

function greet({ screen, program }: CommandContext, server: RunningServer, json: boolean): void {
  const { url, key, keyFile, home, listensOn } = server;
  const { binPath } = program;
  if (json) {
    // Scripts rely on this line: these fields and no others.
    screen.out(`${JSON.stringify({ url, key, home, pid: process.pid })}\n`);
    return;
  }
  const named = home === program.usualHome() ? [] : ['--home', home];
  const clients = clientConfigs([process.execPath, binPath, 'mcp', ...named]);
  const here = home === program.place({}).home ? '' : `ERRAND_HOME=${quoted(home)} `;
  screen.out(
    `errand ${program.version} serves ${url}${listensOn ? ` (listens on ${listensOn})` : ''}\n` +
      `  home  ${home}\n  key   ${keyFile} (for HTTP: Authorization: Bearer …)\n  MCP   ${url}/mcp\n\n` +
      `${clients}\n\nTry: ${here}${quoted(binPath)} run -- echo hello\nStop with ctrl-c.\n`,
  );
}

/** The first signal drains, the second ends at once. Jobs that can go on without a server do. */
function signals({ program, screen }: CommandContext): (server: RunningServer) => Promise<number> {
  let asked = 0;
  let tell = () => {};
  const first = new Promise<void>((resolve) => (tell = resolve));
  const take = withoutEchoes(program.clock, (signal) => {
    asked += 1;
    if (asked > 1) process.exit(signal === 'SIGINT' ? 130 : 143);
    tell();
  });
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, take);
  return async (server) => {
    const by = await Promise.race([first.then(() => 'signal'), server.ended.then(() => 'itself')]);
    if (by === 'signal') {
      if (program.stderr.isTTY)
        screen.err('stopping; jobs that can go on without a server do (again to end at once)\n');
      await server.stop();
    }
    return 0;
  };
}
