// How a client reaches Errand: a command that it starts, or a URL. Each client spells this differently.
import { isObject, type Entry } from './formats/edit.ts';

export type Connection =
  | { command: string; args: readonly string[] }
  | { url: string; key: string | undefined };

/** Reads the connection from an entry of any client. */
export function connectionOf(entry: unknown): Connection | undefined {
  if (!isObject(entry)) return undefined;
  const texts = (value: unknown): string[] =>
    Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
  const command = entry.command ?? entry.cmd;
  if (Array.isArray(command)) {
    const [first, ...args] = texts(command);
    return first === undefined ? undefined : { command: first, args };
  }
  if (typeof command === 'string') return { command, args: texts(entry.args) };
  const url = entry.url ?? entry.httpUrl ?? entry.serverUrl ?? entry.uri;
  if (typeof url !== 'string') return undefined;
  const headers = [entry.headers, entry.http_headers].find(isObject) ?? {};
  const header = Object.entries(headers).find(([name]) => name.toLowerCase() === 'authorization');
  const key = typeof header?.[1] === 'string' ? /^Bearer (\S+)$/.exec(header[1])?.[1] : undefined;
  return { url, key };
}

/** Whether a client with this entry already reaches the same server the same way. */
export function isSameConnection(found: Connection | undefined, wanted: Connection): boolean {
  if (!found) return false;
  if ('url' in wanted) return 'url' in found && found.url === wanted.url && found.key !== undefined;
  return (
    'command' in found &&
    found.command === wanted.command &&
    found.args.length === wanted.args.length &&
    found.args.every((arg, at) => arg === wanted.args[at])
  );
}

/** Whether the user switched the entry off in the client. */
export const isDisabled = (entry: unknown): boolean =>
  isObject(entry) && (entry.disabled === true || entry.enabled === false);

/** Names of the fields that hold a connection in any client. Other fields of an entry are the user's. */
const connectionFields = new Set([
  ...['type', 'command', 'args', 'cmd'],
  ...['url', 'httpUrl', 'serverUrl', 'uri', 'headers', 'http_headers'],
]);

/** The new entry with the user's own fields of the existing one, such as timeouts and approvals. */
export function mergeEntry(existing: unknown, entry: Entry): Entry {
  if (!isObject(existing)) return entry;
  const kept = Object.entries(existing).filter(
    ([name]) => !connectionFields.has(name) && !(name in entry),
  );
  return { ...entry, ...Object.fromEntries(kept) };
}

export const bearer = (key: string | undefined): Record<string, string> =>
  key === undefined ? {} : { Authorization: `Bearer ${key}` };

/** Variables that the client sets for the command. */
export function variablesOf(entry: unknown): Record<string, string> {
  const found = isObject(entry) ? [entry.env, entry.envs, entry.environment].find(isObject) : {};
  const own = Object.entries(found ?? {}).filter(([, value]) => typeof value === 'string');
  return Object.fromEntries(own) as Record<string, string>;
}
