// The bare loop of throughput.ts in a small process: the same detached spawn of the same wrapper with its folder, log file
// and exit record, and nothing else. Each line on stdin runs one round, which prints its rate.
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { LaunchFolder } from '../../src/kinds/command/process/folder.ts';
import { launch } from '../../src/kinds/command/process/launch.ts';

const [root, inFlight, perRound] = [
  process.argv[2]!,
  Number(process.argv[3]),
  Number(process.argv[4]),
];
let count = 0;

async function one(): Promise<void> {
  const folder = new LaunchFolder(join(root, String(count++), '1.1'));
  const { ended } = await launch({
    folder,
    argv: ['true'],
    cwd: '/',
    env: { PATH: process.env.PATH ?? '' },
    attemptId: 'bare',
    stdin: 'none',
    streams: 'merged',
  });
  await ended;
  if (folder.readExit()?.exitCode !== 0) throw new Error('a bare command failed');
}

for await (const _line of createInterface({ input: process.stdin })) {
  let left = perRound;
  const started = performance.now();
  const worker = async () => {
    while (left-- > 0) await one();
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
  console.log(perRound / ((performance.now() - started) / 1000));
}
