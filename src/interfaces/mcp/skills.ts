// Serves the skill of this package over MCP (extension io.modelcontextprotocol/skills): how a model uses the tools well.
import { readFileSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { ProtocolError, ProtocolErrorCode, type Server } from '@modelcontextprotocol/server';
import type { Skill } from '@modelcontextprotocol/server/ext/skills';
import { anySchema } from './protocol.ts';
import type { ResourceContent } from './source.ts';

export const skillsExtension = 'io.modelcontextprotocol/skills';

const skillName = 'errand';
const folder = join(import.meta.dirname, '..', '..', '..', 'plugin', 'skills', skillName);
const baseUri = `skill://${skillName}/`;
/** The files change only with the program version. */
const cache = { ttlMs: 300_000, cacheScope: 'public' } as const;

export function installSkills(server: Server): void {
  const fields = () => (server.getNegotiatedProtocolVersion() === undefined ? {} : cache);
  server.setRequestHandler('skills/list', { params: anySchema }, async () => ({
    skills: [await ownSkill()],
    ...fields(),
  }));
  server.setRequestHandler('skills/get', { params: anySchema }, async (params) => {
    const skill = await ownSkill();
    const { uri } = params;
    if (uri !== skill.uri)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `No skill at ${String(uri)}.`);
    return { skill, ...fields() };
  });
  server.setRequestHandler('resources/directory/read', { params: anySchema }, async (params) => {
    const { frontmatter } = await ownSkill();
    const children = childrenOf(String(params.uri), frontmatter);
    if (children.length === 0)
      throw new ProtocolError(
        ProtocolErrorCode.InvalidParams,
        `${String(params.uri)} is not a directory resource.`,
      );
    return { resources: children, ...fields() };
  });
}

/** The file of a skill, or undefined for any other URI. */
export function readSkillFile(uri: string): ResourceContent[] | undefined {
  const name = fileNames().find((each) => baseUri + each === uri);
  if (name === undefined) return undefined;
  return [{ uri, mimeType: 'text/markdown', text: readFileSync(join(folder, name), 'utf8') }];
}

/** Paths of all files, relative to the skill. */
const fileNames = (): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => relative(folder, join(parentPath, name)).replaceAll('\\', '/'))
    .toSorted();

/** The files and folders directly below a folder of the skill. The main file has the name and description of the skill. */
function childrenOf(uri: string, { name, description }: Skill['frontmatter']) {
  const parent = uri.endsWith('/') ? uri : `${uri}/`;
  const below = fileNames()
    .map((file) => baseUri + file)
    .filter((file) => file.startsWith(parent))
    .map((file) => file.slice(parent.length));
  return [...new Set(below.map((path) => path.split('/')[0]!))].map((child) => ({
    uri: parent + child,
    ...(parent + child === `${baseUri}SKILL.md` ? { name, description } : { name: child }),
    mimeType: below.includes(child) ? 'text/markdown' : 'inode/directory',
  }));
}

let loaded: Promise<Skill> | undefined;

/** Digests and frontmatter, computed by the first client that asks. */
function ownSkill(): Promise<Skill> {
  const load = async () => {
    const { skillEntry } = await import('@modelcontextprotocol/server/ext/skills');
    const files = fileNames().map((name): [string, Buffer] => [
      name,
      readFileSync(join(folder, name)),
    ]);
    return skillEntry(skillName, Object.fromEntries(files));
  };
  return (loaded ??= load());
}
