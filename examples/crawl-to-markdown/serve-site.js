// Serves the pages in site/ on a free port, so that the example needs no network.
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';

const folder = join(import.meta.dirname, 'site');

export async function serveSite() {
  const pages = new Map();
  for (const name of await readdir(folder))
    pages.set(name === 'index.html' ? '/' : `/${name}`, await readFile(join(folder, name)));
  const server = createServer(({ url }, response) => {
    const page = pages.get(url);
    response.writeHead(page ? 200 : 404, { 'content-type': 'text/html' }).end(page);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}
