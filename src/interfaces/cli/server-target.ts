// Chooses the server of a command: the server of a home, which is started if necessary, or the one at ERRAND_URL.
import { AppError } from '../../errors.ts';
import { Client, type Target } from './client.ts';
import { connectServer } from './connect.ts';
import type { Program } from './program.ts';

/** Returns the program for another home. The flag takes precedence over ERRAND_HOME and ERRAND_URL. */
export function programAt(program: Program, home: string): Program {
  if (home === '') throw new AppError('invalidInput', '--home requires a folder.');
  const { ERRAND_URL: _url, ...env } = program.env;
  return {
    ...program,
    env: { ...env, ERRAND_HOME: home },
    place: (options) => program.place({ home: options.home ?? home }),
  };
}

export async function createClient(program: Program): Promise<Client> {
  const { env } = program;
  const origin = { cwd: process.cwd(), env: plainEnv(env) };
  const target: Target = env.ERRAND_URL
    ? { url: serverUrl(env.ERRAND_URL), key: serverKey(env.ERRAND_KEY) }
    : { socketPath: await connectServer(program) };
  return new Client(target, origin);
}

export function plainEnv(env: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}

const urlExample = 'Example: http://127.0.0.1:7411 or https://jobs.example.org.';

function serverUrl(text: string): string {
  const shown = JSON.stringify(text.replace(/\/\/[^/@]*@/, '//…@'));
  const wrong = (why: string) =>
    new AppError('invalidInput', `ERRAND_URL is ${shown}, ${why}.`, {
      hint: `${urlExample} Unset ERRAND_URL to use the server of this machine.`,
    });
  const isBare = /^[\w.-]+:\d+(\/|$)/.test(text) || !text.includes('://');
  if (isBare) throw wrong('which is not a URL: http:// or https:// is missing');
  if (!URL.canParse(text)) throw wrong('which is not a URL');
  const { protocol, username, password } = new URL(text);
  if (protocol !== 'http:' && protocol !== 'https:') throw wrong('which is not an http(s) URL');
  if (username !== '' || password !== '')
    throw wrong('which contains credentials; put the key into ERRAND_KEY');
  return text;
}

function serverKey(text: string | undefined): string | undefined {
  if (text === undefined || text === '') return undefined;
  const key = text.trim();
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw new AppError(
    'invalidInput',
    'ERRAND_KEY contains characters that are not valid in a key.',
    {
      hint: 'Set it to the key that `errand key create` printed, without quotes or spaces.',
    },
  );
}
