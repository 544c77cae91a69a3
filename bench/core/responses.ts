// What ten ordinary calls cost a model: characters for clients that show structured results, and for those that show text.
// SHOW=1 prints the responses as well.
import { join } from 'node:path';
import { scratchFolder } from '../harness.ts';
import { startStdio } from './stdio.ts';
import { tenCalls, type ToolResult } from './ten-calls.ts';

const maxRatio = 1.1;
const maxCharacters = 3500;

const bin = join(import.meta.dirname, '../../bin/errand.js');
const env = { ...process.env, ERRAND_HOME: join(scratchFolder(), 'home') };
const bridge = await startStdio([bin, 'mcp'], env);
try {
  const call = async (name: string, input: object) =>
    (await bridge.request('tools/call', { name, arguments: input })) as unknown as ToolResult;
  const counted = await tenCalls(call, 1);
  let structure = 0;
  let text = 0;
  for (const one of counted) {
    structure += one.structure.length;
    text += one.text.length;
    console.log(`${one.call}: structure ${one.structure.length}, text ${one.text.length}`);
    if (process.env.SHOW) console.log(`${one.structure}\n${one.text}\n`);
  }
  const ratio = structure / text;
  const met = ratio <= maxRatio && structure <= maxCharacters;
  if (!met) process.exitCode = 1;
  console.log(
    `ten calls: structure ${structure}, text ${text} characters, ratio ${ratio.toFixed(2)} (bar ≤ ${maxRatio}×, ≤ ${maxCharacters}) ${met ? 'ok' : 'ABOVE'}`,
  );
} finally {
  await bridge.close();
}
