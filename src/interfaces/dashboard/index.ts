// The dashboard: serves the document and the files of the browser program. All data comes from operations over the HTTP API,
// with the rights of the session.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { loadAssets, type Assets } from './assets.ts';
import type { Asset } from './bundle.ts';
import { documentFor, isView } from './document.ts';

export { writeBundle } from './assets.ts';

interface Dashboard {
  /** Returns false when the path belongs to another handler. */
  handle(
    request: IncomingMessage,
    response: ServerResponse,
    mounted: { path: string },
  ): Promise<boolean>;
}

/** Scripts and styles only from this server, no frames, no forms to other origins. */
const contentPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "worker-src 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'self'",
].join('; ');

const safetyHeaders = {
  'content-security-policy': contentPolicy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
};

const assetPath = '/assets/';

export function createDashboard(): Dashboard {
  let loading: Promise<Assets> | undefined;
  const load = (): Promise<Assets> => {
    loading ??= loadAssets().catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
  return {
    handle: async (request, response, { path }) => {
      if (request.method !== 'GET' && request.method !== 'HEAD') return false;
      if (isView(path)) {
        sendDocument(response, documentFor(path, (await load()).entries));
        return true;
      }
      if (!path.startsWith(assetPath)) return false;
      const asset = (await load()).byName.get(path.slice(assetPath.length));
      if (asset) sendAsset(request, response, asset);
      return asset !== undefined;
    },
  };
}

function sendDocument(response: ServerResponse, html: string): void {
  response.writeHead(200, {
    ...safetyHeaders,
    'content-type': 'text/html; charset=utf-8',
    'content-length': Buffer.byteLength(html),
    'cache-control': 'no-cache',
  });
  response.end(html);
}

/** The name contains a hash of the contents, so that a browser never has to ask again. */
function sendAsset(request: IncomingMessage, response: ServerResponse, asset: Asset): void {
  const accepted = String(request.headers['accept-encoding'] ?? '');
  const encoding = /\bbr\b/.test(accepted) ? 'br' : /\bgzip\b/.test(accepted) ? 'gzip' : undefined;
  const body = { br: asset.brotli, gzip: asset.gzip, none: asset.bytes }[encoding ?? 'none'];
  response.writeHead(200, {
    ...safetyHeaders,
    'content-type': asset.type,
    'content-length': body.length,
    'cache-control': 'public, max-age=31536000, immutable',
    vary: 'accept-encoding',
    ...(encoding === undefined ? {} : { 'content-encoding': encoding }),
  });
  response.end(body);
}
