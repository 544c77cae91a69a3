// Tests the real `firecrawl-py` package against this server. npm cannot install it for the test suite, so run it manually:
//   python3 -m venv /tmp/fc && /tmp/fc/bin/pip install firecrawl-py
//   PYTHON=/tmp/fc/bin/python node scripts/firecrawl-py.ts
// Prints one line per call. Exit code 0: all calls work, 1: some fail, 2: the package cannot be loaded.
import { execFile, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startServer } from '../src/server.ts';
import { Site } from '../test/fixtures/site/site.ts';

const python = process.env.PYTHON ?? 'python3';
const version = 'import firecrawl; print(firecrawl.__version__)';
const found = spawnSync(python, ['-c', version], { encoding: 'utf8' });
if (found.status !== 0) {
  const why = found.error?.message ?? found.stderr.trim().split('\n').at(-1);
  console.error(`${python} cannot load the package firecrawl-py: ${why}`);
  console.error('firecrawl-py is not installed. Run: pip install firecrawl-py');
  console.error('Then pass its Python: PYTHON=/path/to/python node scripts/firecrawl-py.ts');
  process.exit(2);
}
console.log(`firecrawl-py ${found.stdout.trim()}`);

const calls = `
import sys, traceback
from firecrawl import Firecrawl
url, key, site = sys.argv[1:4]
client = Firecrawl(api_key=key, api_url=url)
schema = {"type": "object", "properties": {"title": {"type": "string"}}}

def scrape():
    page = client.scrape(site + "/p/3", formats=["markdown", "links", {"type": "json", "schema": schema, "prompt": "title"}])
    assert "Number 3" in page.markdown and page.json["title"] == "Page 3", page
    assert page.metadata.status_code == 200, page.metadata

def crawl():
    job = client.crawl(site + "/", limit=12, poll_interval=1)
    assert job.status == "completed" and len(job.data) == 12, job

def paging():
    urls = [site + "/p/%d" % n for n in range(1, 31)] + [site + "/lost"]
    job = client.batch_scrape(urls, formats=["markdown"], poll_interval=1)
    assert len(job.data) == 31, len(job.data)
    assert any(one.metadata.status_code == 404 for one in job.data)

def cancel():
    job = client.start_crawl(site + "/", limit=40, delay=1)
    assert client.cancel_crawl(job.id)

def errors():
    job = client.start_crawl(site + "/", limit=2)
    assert client.get_crawl_errors(job.id).robots_blocked == []

def map_site():
    assert len(client.map(site + "/", limit=5, sitemap="skip").links) == 5

def extract():
    made = client.extract(urls=[site + "/p/1"], schema=schema, show_sources=True)
    assert made.data["title"] == "Page 1", made
    assert isinstance(made.sources, dict), made.sources

def refused():
    try: client.scrape(site + "/p/1", wait_for=9000, timeout=10000)
    except Exception as error: assert "400" in str(error) or "Bad Request" in str(error), error
    else: raise AssertionError("was accepted")

def usage():
    assert client.get_credit_usage().remaining_credits > 0
    assert client.get_concurrency().max_concurrency > 0

failed = 0
for call in [scrape, crawl, paging, cancel, errors, map_site, extract, refused, usage]:
    try:
        call()
        print("ok  ", call.__name__)
    except Exception:
        failed = 1
        print("FAIL", call.__name__)
        traceback.print_exc()
sys.exit(failed)
`;

const folder = mkdtempSync(join(tmpdir(), 'errand-firecrawl-py-'));
const home = join(folder, 'home');
mkdirSync(home, { mode: 0o700 });
writeFileSync(
  join(home, 'config.json'),
  JSON.stringify({ egress: { allow: ['127.0.0.1'] }, web: { browser: { path: '/nonexistent' } } }),
);
const site = await new Site({ pages: 40 }).listen();
const server = await startServer({ home, port: 0 });
try {
  const args = ['-c', calls, `${server.url}/firecrawl`, server.key, site.url('')];
  const run = await promisify(execFile)(python, args, { timeout: 300_000 }).catch(
    (error: { stdout: string; stderr: string }) => {
      process.exitCode = 1;
      return error;
    },
  );
  process.stdout.write(run.stdout);
  process.stderr.write(run.stderr);
} finally {
  await server.stop();
  await site.close();
  rmSync(folder, { recursive: true, force: true });
}
