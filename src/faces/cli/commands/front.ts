// `errand mcp`: the stdio front. It ends with its stdin; jobs go on.
import type { Command } from '../cli.ts';
import { connectServer } from '../connect.ts';
import { flags } from '../flags.ts';

const usage = 'Usage: errand mcp [--toolsets a,b] [--dialect a,b] [--home DIR]';

export const front: Command = async ({ program, args }) => {
  const { values } = flags(
    args,
    {
      toolsets: { type: 'string', multiple: true },
      dialect: { type: 'string', multiple: true },
      home: { type: 'string' },
    },
    usage,
  );
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
};
