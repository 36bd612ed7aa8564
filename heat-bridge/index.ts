/** `saltbridge/bridge`: named commands, enrolment and signals for orchestration services. */
export { type Bridge, createBridge } from './bridge.ts';
export { BridgeError, type BridgeErrorCode, bridgeErrors } from './errors.ts';
export type { HttpDoors } from './http/doors.ts';
export type { BridgePlugin } from './http/plugin.ts';
export type { Transport } from './signals/destination.ts';
export type { HandleInfo, HandleRegistration } from './signals/handle.ts';
export type { OutboxEntry } from './signals/outbox-record.ts';
export type { HandlesApi, OutboxApi, OutboxSelection } from './signals/signals-api.ts';
