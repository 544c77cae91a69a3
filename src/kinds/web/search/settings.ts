// Search settings (`web.search` in config.json): the engines, their order, URLs and keys. Settings contain
// only the names of keys; the values come from the environment or home/env.
import { z } from 'zod';

const engineNames = [
  'searxng',
  'brave',
  'tavily',
  'searchclaw',
  'local',
  'wikipedia',
  'openverse',
  'commons',
  'gdelt',
  'feeds',
] as const;
export type EngineName = (typeof engineNames)[number];

const keyed = (url: string, keyName: string) =>
  z
    .strictObject({
      url: z.url().default(url),
      keyName: z.string().default(keyName).describe('Name of the secret that contains the API key'),
    })
    .prefault({});
const keyless = (url: string) => z.strictObject({ url: z.url().default(url) }).prefault({});

export const searchSettings = z
  .strictObject({
    engines: z
      .array(z.enum(engineNames))
      .default([...engineNames])
      .describe('Engines in order of use; engines not listed are disabled'),
    searxngUrl: z.url().optional().describe('Your SearXNG instance, e.g. http://127.0.0.1:8888'),
    brave: keyed('https://api.search.brave.com', 'BRAVE_API_KEY'),
    tavily: keyed('https://api.tavily.com', 'TAVILY_API_KEY'),
    searchclaw: keyed('https://api.searchclaw.dev/v1', 'SEARCHCLAW_API_KEY'),
    wikipedia: keyless('https://en.wikipedia.org'),
    commons: keyless('https://commons.wikimedia.org'),
    openverse: keyless('https://api.openverse.org'),
    gdelt: keyless('https://api.gdeltproject.org'),
    feeds: z.array(z.url()).max(50).default([]).describe('RSS or Atom feeds that `news` searches'),
    timeoutMs: z.number().int().min(100).max(60_000).default(10_000).describe('Timeout per engine'),
    maxResponseBytes: z
      .number()
      .int()
      .min(1024)
      .default(4 * 1024 * 1024)
      .describe('Maximum response size of an engine'),
  })
  .prefault({});

export type SearchSettings = z.infer<typeof searchSettings>;
