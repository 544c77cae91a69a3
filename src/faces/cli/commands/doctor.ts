// `errand doctor`: one line per thing looked at, and what to do about the bad ones. Exit 1 when there is a problem.
import { command } from '../command.ts';
import { paint } from '../screen.ts';

const mark = { ok: '✓', note: '·', problem: '✗' } as const;
const colour = { ok: 'green', note: 'yellow', problem: 'red' } as const;

export const doctor = command({
  summary: 'find out why something does not work',
  flags: {
    json: { type: 'boolean', help: 'print JSON, for scripts' },
  },
  async run({ program, screen }, { values }) {
    const { home } = program.place(values.home === undefined ? {} : { home: values.home });
    const findings = await program.examine(home);
    if (values.json) screen.out(`${JSON.stringify({ findings })}\n`);
    else {
      for (const { state, name, text, hint } of findings) {
        const sign = paint(screen, colour[state], mark[state]);
        screen.out(`${sign} ${name}: ${text}\n${hint ? `    ${hint}\n` : ''}`);
      }
    }
    return findings.some(({ state }) => state === 'problem') ? 1 : 0;
  },
});
