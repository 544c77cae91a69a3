// `errand mcp`: the stdio bridge. It exits when stdin closes; jobs keep running.
import { command } from '../command.ts';
import { connectServer } from '../connect.ts';

export const mcp = command({
  summary: 'MCP server for agents (stdio)',
  about:
    'Runs the MCP server on stdin and stdout. An agent starts this command; it connects to the server of the home and starts that server if necessary. It exits when stdin closes, and jobs keep running.',
  examples: ['claude mcp add errand -- errand mcp', 'errand mcp --toolsets default,web'],
  flags: {
    toolsets: {
      type: 'string',
      multiple: true,
      value: 'A,B',
      help: 'additional toolsets: jobs, endpoints, web, escrow …, or all',
    },
    dialect: {
      type: 'string',
      multiple: true,
      value: 'A,B',
      help: 'use the tools of background-job, runpod, searchclaw or cardzero instead',
    },
    channel: {
      type: 'boolean',
      help: 'announce a channel that wakes the model when a job of its session ends (Claude Code)',
    },
  },
  async run({ program }, { values }) {
    const list = (texts: string[] | undefined) =>
      (texts ?? []).flatMap((text) =>
        text
          .split(',')
          .map((part) => part.trim())
          .filter(Boolean),
      );
    await program.runBridge({
      connect: () => connectServer(program, values.home),
      toolsets: list(values.toolsets),
      dialects: list(values.dialect),
      channel: values.channel === true,
    });
    return 0;
  },
});
