// The access scope of operations on one endpoint: the endpoint named by the input, and its queue of the same name.
import type { Reach } from '../../../operation.ts';

export const ofEndpoint: Reach<{ endpointId: string }> = {
  queue: ({ endpointId }) => endpointId,
  subject: { type: 'endpoint', id: ({ endpointId }) => endpointId },
};
