// Ten calls of an ordinary session, and what a client shows its model for each: the structured JSON, or the text.

export interface ToolResult {
  structuredContent?: Record<string, unknown>;
  content: { type: string; text?: string }[];
  isError?: boolean;
}

export interface Counted {
  call: string;
  structure: string;
  text: string;
}

type Call = (name: string, input: object) => Promise<ToolResult>;

const suite = [
  'for i in $(seq 400); do echo "PASS tests/mod$i.test.ts ($i ms)"; done',
  `printf '%s\\n' 'FAIL tests/cart.test.ts' '● cart › adds tax' 'expect(received).toBe(expected)' 'Expected: 21' 'Received: 20' 'at Object.<anonymous> (tests/cart.test.ts:14:23)'`,
  'for i in $(seq 401 500); do echo "PASS tests/mod$i.test.ts ($i ms)"; done',
  'echo "Tests: 1 failed, 500 passed, 501 total"; exit 1',
].join('; ');

/** `stepSeconds`: duration of each of the thirty steps of the first job. */
export async function tenCalls(call: Call, stepSeconds: number): Promise<Counted[]> {
  const counted: Counted[] = [];
  const count = async (name: string, input: object) => {
    const result = await call(name, input);
    if (result.isError) throw new Error(`${name}: ${JSON.stringify(result)}`);
    const text = result.content.map((part) => part.text ?? '').join('\n');
    counted.push({ call: name, structure: JSON.stringify(result.structuredContent), text });
    return result.structuredContent as { id: string };
  };
  const steps = `for i in $(seq 30); do echo "step $i of 30"; sleep ${stepSeconds}; done`;
  const { id: slow } = await count('run_command', { command: steps, waitMs: 1000 * stepSeconds });
  const { id: failed } = await count('run_command', { command: suite, waitMs: 20_000 });
  await count('read_output', { id: failed, mode: 'errors' });
  await count('wait_for_jobs', { ids: [slow], waitMs: 40_000 });
  const { id: repl } = await count('run_command', { command: 'python3 -i', stdin: 'open' });
  await count('send_input', { id: repl, text: 'print(6*7)', newline: true });
  await count('send_input', { id: repl, text: 'import os; print(os.getcwd())', newline: true });
  await count('cancel_job', { id: repl });
  await count('get_job', { id: slow });
  await count('list_jobs', { limit: 5 });
  return counted;
}
