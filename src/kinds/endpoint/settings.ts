// Settings of the endpoint kind (section `endpoint` in config.json): endpoints by id.
import { z } from 'zod';
import { endpointId, endpointSpec } from './spec.ts';

export const endpointSettings = z.record(endpointId, endpointSpec).prefault({});
export type EndpointSettings = z.infer<typeof endpointSettings>;
