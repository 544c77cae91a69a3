// A server with the Firecrawl dialect on the test sites, and the Firecrawl SDK connected to it.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { html, startSite, type Site } from '../fixtures/site/site.ts';
import { withoutBrowser } from './chromium.ts';
import { tempFolder } from './folder.ts';
import { startServer, type TestServer } from './server.ts';

export type Json = ReturnType<typeof JSON.parse>;

export interface FirecrawlParts {
  server: TestServer;
  site: Site;
  client: Json;
}

export async function openFirecrawl(t: TestContext, driven?: object): Promise<FirecrawlParts> {
  const site = await startSite(t, { pages: 40 });
  site.on('/api/rest_v1', html('', 404));
  const rows = [
    { title: 'Target', url: site.url('/target'), content: 'about the target', engine: 'fixture' },
  ];
  site.on(
    '/search',
    html(JSON.stringify({ query: 'q', results: rows, suggestions: [] }), 200, {
      'content-type': 'application/json',
    }),
  );
  const home = join(tempFolder(t), 'home');
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const config = {
    egress: { allow: ['127.0.0.1'] },
    web: { search: { searxngUrl: site.url('') }, browser: driven ?? withoutBrowser },
  };
  writeFileSync(join(home, 'config.json'), JSON.stringify(config));
  const server = await startServer(t, { home });
  const { default: Firecrawl } = (await import('@mendable/firecrawl-js')) as Json;
  const client = new Firecrawl({ apiKey: server.key, apiUrl: `${server.url}/firecrawl` });
  return { server, site, client };
}
