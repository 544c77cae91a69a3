// Keys of agent clients that connect over HTTP. A key can read and run jobs, but manage nothing.
import type { AgentClient } from '../../agent-clients/table.ts';
import type { InputOf, OutputOf } from '../../contract.ts';
import type { createKey, listKeys, revokeKey } from '../../contracts/keys.ts';
import { errorBody } from '../../errors.ts';
import type { Client } from './client.ts';
import type { CommandContext } from './command.ts';

export type ClientKey = OutputOf<typeof createKey>;

const keyName = ({ id }: AgentClient): string => `errand add ${id}`;

export async function createClientKey(server: Client, client: AgentClient): Promise<ClientKey> {
  const request: InputOf<typeof createKey> = { name: keyName(client), scopes: ['read', 'run'] };
  return (await server.call<typeof createKey>('create_key', request)).output;
}

/** Revokes the keys of a client. Returns a note for the user if that was not possible. */
export async function revokeClientKeys(
  context: CommandContext,
  client: AgentClient,
): Promise<string | undefined> {
  try {
    const server = await context.client();
    const { output } = await server.call<typeof listKeys>('list_keys', {});
    const own = output.keys.filter(
      ({ name, revokedAt }) => name === keyName(client) && revokedAt === undefined,
    );
    for (const { id } of own) await server.call<typeof revokeKey>('revoke_key', { id });
    return undefined;
  } catch (error) {
    return `Its key was not revoked: ${errorBody(error).message} Find it with \`errand key list\`.`;
  }
}
