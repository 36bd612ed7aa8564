/** The replicated log of a cluster. This module is loaded only if a cluster is configured. */
export { LogCipher } from './cipher.ts';
export { foundLog } from './founding.ts';
export { openJetStreamLog } from './jetstream-log.ts';
export { openLogStore } from './log-store.ts';
export { replayLog } from './replay.ts';
