// Who is logged in and what they may do.
import { computed, signal } from '@preact/signals';
import { get, isLoggedOut, post } from './api.ts';
import { urlOf } from './base.ts';
import { go } from './router.ts';

interface Me {
  owner: string;
  scopes: string[];
  admin: boolean;
  session?: { id: string; createdAt: string; expiresAt: string; readOnly: boolean };
  limits: { kinds?: string[]; queues?: string[]; subject?: string };
  server: { version: string; kinds: string[]; url?: string };
}

export const me = signal<Me | undefined>(undefined);

const has = (scope: string): boolean =>
  me.value?.scopes.some((one) => one === scope || one === 'admin') === true;

/** Whether this server has jobs of the kind and the session may use them. */
export function offers(kind: string): boolean {
  const { server, limits } = me.value ?? {};
  return server?.kinds.includes(kind) === true && limits?.kinds?.includes(kind) !== false;
}

/** False for read-only sessions: they see no actions. */
export const mayRun = computed(() => has('run'));
export const mayAdminister = computed(() => has('admin'));

export async function loadMe(): Promise<void> {
  me.value = await get<Me>('api/me');
  isLoggedOut.value = false;
}

export async function logIn(input: { code: string } | { key: string }): Promise<void> {
  const response = await fetch(urlOf('login'), {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify(input),
  });
  if (!response.ok) {
    const problem = (await response.json().catch(() => ({}))) as { detail?: string; hint?: string };
    const text = problem.detail ?? `The server responded with ${response.status}.`;
    throw new Error(problem.hint === undefined ? text : `${text} ${problem.hint}`);
  }
  try {
    await loadMe();
  } catch {
    throw new Error(
      'The browser did not keep the session cookie. Allow cookies for this site and log in again.',
    );
  }
}

export async function logOut(): Promise<void> {
  await post('logout').catch(() => {});
  me.value = undefined;
  isLoggedOut.value = true;
  go('/login');
}
