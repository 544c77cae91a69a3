// Identifies duplicate rows: URLs that differ only in http/https, www, a trailing slash or a fragment are the
// same result.
export function sameUrl(url: string): string {
  return url
    .replace(/^https?:\/\/(?:www\.)?/i, '')
    .replace(/#.*$/, '')
    .replace(/\/$/, '');
}
