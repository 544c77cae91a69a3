// `errand open`: opens the dashboard in a browser that is logged in with a single-use code.
import type { createLoginCode } from '../../../contracts/sessions.ts';
import type { Client } from '../client.ts';
import { command } from '../command.ts';
import { openBrowser } from '../browser.ts';

interface LoginCode {
  url: string;
  expiresAt: string;
}

export const open = command({
  summary: 'open the dashboard in the browser',
  about:
    'Opens the dashboard in the browser, logged in as you. The address contains a code that works once, within 60 s. Without a browser on this machine it prints the address. With ERRAND_URL it opens the login page of that server, which asks for an API key.',
  examples: ['errand open', 'errand open --read-only', 'errand open --print'],
  flags: {
    'read-only': { type: 'boolean', help: 'a session that cannot change anything' },
    print: { type: 'boolean', help: 'print the address and open no browser' },
    json: { type: 'boolean', help: 'print JSON for scripts and open no browser' },
  },
  async run(context, { values }) {
    const { program, screen } = context;
    const remote = program.env.ERRAND_URL;
    const login: Partial<LoginCode> & { url: string } = remote
      ? { url: `${remote.replace(/\/$/, '')}/login` }
      : await createCode(await context.client(), values['read-only'] === true);
    if (values.json) {
      screen.out(`${JSON.stringify(login)}\n`);
      return 0;
    }
    const address = login.url.replace(/\/login(#.*)?$/, '/');
    if (!values.print && (await openBrowser(program, login.url))) {
      screen.out(`opened ${address} in the browser\n`);
      return 0;
    }
    screen.out(`${login.url}\n`);
    screen.err(remote ? keyNote : codeNote);
    return 0;
  },
});

const keyNote = 'Open this address in a browser and log in with an API key.\n';
const codeNote =
  'Open this address in a browser on this machine within 60 s. It works once.\n' +
  'From another machine, forward the port first: ssh -L PORT:127.0.0.1:PORT HOST\n';

async function createCode(client: Client, readOnly: boolean): Promise<LoginCode> {
  const { output } = await client.call<typeof createLoginCode>('create_login_code', { readOnly });
  return { url: output.url, expiresAt: output.expiresAt };
}
