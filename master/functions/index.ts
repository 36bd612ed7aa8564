export { isList } from '../data/index.ts';
export type { FunctionCaller } from './caller.ts';
export { createFunctions, createOrchestrator, type Functions } from './functions.ts';
export { textOf } from './orchestrate/high-data.ts';
export { orderChunks } from './orchestrate/low-chunk.ts';
export { PeerPublisher, PeerRunner, toCall } from './peers.ts';
export { authRunner, dataRunners, fileRunners, minionRunners } from './runners.ts';
export { createSchedule } from './schedule.ts';
export { wheelTable } from './wheel.ts';
