// What operations on one endpoint touch: the endpoint that the input names, and its queue, which has the same name.
import type { Reach } from '../../../operation.ts';

export const ofEndpoint: Reach<{ endpointId: string }> = {
  queue: ({ endpointId }) => endpointId,
  subject: { type: 'endpoint', id: ({ endpointId }) => endpointId },
};
