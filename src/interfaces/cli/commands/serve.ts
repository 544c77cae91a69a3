// `errand serve`: runs the server in the foreground. With --json, prints exactly one line when it is ready.
import { AppError } from '../../../errors.ts';
import { shellQuote } from '../../../runtime/shell.ts';
import { Client } from '../client.ts';
import { command, wholeNumber, type CommandContext } from '../command.ts';
import { findServer, refuseWindows, removeHeapVariables } from '../connect.ts';
import { withoutDuplicates } from '../interrupts.ts';
import type { RunningServer, ServeOptions } from '../program.ts';
import type { stopServer } from '../../../contracts/server.ts';

export const serve = command({
  summary: 'run the server in the foreground',
  about:
    'Runs the server of a home in the foreground until ctrl-c. Other commands start a server in the background if none is running, so this command is needed only for HTTP access, clusters and service managers. A background server is replaced; its jobs keep running.',
  examples: [
    'errand serve',
    'errand serve --port 0 --json',
    'errand serve --store postgres://db/errand --label gpu',
  ],
  flags: {
    port: { type: 'string', value: 'N', help: 'TCP port (0: any free port)' },
    host: { type: 'string', value: 'H', help: 'address to listen on (default 127.0.0.1)' },
    store: {
      type: 'string',
      value: 'postgres://…',
      help: 'use PostgreSQL (cluster) instead of a file',
    },
    label: {
      type: 'string',
      multiple: true,
      value: 'NAME',
      help: 'label of this node, for `errand run --label` (repeatable)',
    },
    auto: {
      type: 'boolean',
      help: 'background mode of clients: private socket only, exits when idle',
    },
    json: { type: 'boolean', help: 'print one line of JSON when ready' },
  },
  async run(context, { values }) {
    refuseWindows(context.program);
    if (values.auto) removeHeapVariables(context.program.env);
    const port = wholeNumber(values.port, 'port');
    const options: ServeOptions = {
      ...(port === undefined ? {} : { port }),
      ...(values.host === undefined ? {} : { host: values.host }),
      ...(values.home === undefined ? {} : { home: values.home }),
      ...(values.store === undefined ? {} : { store: values.store }),
      ...(values.label === undefined ? {} : { labels: values.label }),
      ...(values.auto ? { auto: true } : {}),
    };
    // Listen before the start: a signal during the start stops the server right after it.
    const waitForStop = stopOnSignal(context);
    const server = await startOrTakeOver(context, options);
    if (!values.auto) printStartup(context, server, values.json === true);
    return waitForStop(server);
  },
});

/** Replaces a server that a client started in the background. Its jobs keep running. */
async function startOrTakeOver(
  context: CommandContext,
  options: ServeOptions,
): Promise<RunningServer> {
  const { program } = context;
  try {
    return await program.serve(options);
  } catch (error) {
    const taken = error instanceof AppError && error.code === 'conflict' && !options.auto;
    const socketPath = taken ? await findServer(program, options.home) : undefined;
    if (!socketPath) throw error;
    const client = new Client({ socketPath });
    if ((await client.health()).auto !== true) throw error;
    await client.call<typeof stopServer>('stop_server', {});
    for (let tries = 0; tries < 200; tries++) {
      await program.clock.sleep(50);
      try {
        return await program.serve(options);
      } catch (again) {
        if (!(again instanceof AppError && again.code === 'conflict')) throw again;
      }
    }
    throw error;
  }
}

function printStartup(
  { screen, program }: CommandContext,
  server: RunningServer,
  json: boolean,
): void {
  const { url, key, keyFile, home, listensOn } = server;
  const { binPath } = program;
  if (json) {
    // Scripts depend on exactly these fields.
    screen.out(`${JSON.stringify({ url, key, home, pid: process.pid })}\n`);
    return;
  }
  const at = home === program.defaultHome() ? '' : ` --home ${shellQuote(home)}`;
  screen.out(
    `errand ${program.version} is running at ${url}${listensOn ? ` (listening on ${listensOn})` : ''}\n` +
      `  home  ${home}\n  key   ${keyFile} (for HTTP: Authorization: Bearer …)\n  MCP   ${url}/mcp\n\n` +
      `Connect your agents:  ${shellQuote(binPath)} add${at}\n` +
      `Try it:               ${shellQuote(binPath)} run${at} -- echo hello\nStop with ctrl-c.\n`,
  );
}

/** The first signal stops the server gracefully, the second one immediately. Command jobs keep running. */
function stopOnSignal({
  program,
  screen,
}: CommandContext): (server: RunningServer) => Promise<number> {
  let signalCount = 0;
  let stop = () => {};
  const stopRequested = new Promise<void>((resolve) => (stop = resolve));
  const onSignal = withoutDuplicates(program.clock, (signal) => {
    signalCount += 1;
    if (signalCount > 1) process.exit(signal === 'SIGINT' ? 130 : 143);
    stop();
  });
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, onSignal);
  return async (server) => {
    const stoppedBy = await Promise.race([
      stopRequested.then(() => 'signal'),
      server.ended.then(() => 'itself'),
    ]);
    if (stoppedBy === 'signal') {
      if (program.stderr.isTTY)
        screen.err('stopping; command jobs keep running (press again to stop immediately)\n');
      await server.stop();
    }
    return 0;
  };
}
