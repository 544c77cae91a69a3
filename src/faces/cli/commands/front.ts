// `errand mcp`: the stdio front. It ends with its stdin; jobs go on.
import { command } from '../command.ts';
import { connectServer } from '../connect.ts';

export const front = command({
  summary: 'the MCP server an agent launches (stdio)',
  flags: {
    toolsets: {
      type: 'string',
      multiple: true,
      value: 'A,B',
      help: 'more tools: jobs, endpoints, web, escrow … (all of them: all)',
    },
    dialect: {
      type: 'string',
      multiple: true,
      value: 'A,B',
      help: 'the tools of background-job, runpod, searchclaw or cardzero instead',
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
    await program.runFront({
      connect: () => connectServer(program, values.home),
      toolsets: list(values.toolsets),
      dialects: list(values.dialect),
    });
    return 0;
  },
});
