// How one delivery reaches its receiver.

/** Sends one request and returns the HTTP status, or what was done instead. Throws if there was no response. */
export type WebhookSender = (request: {
  url: string;
  headers: Record<string, string>;
  body: string;
}) => Promise<number | string>;
