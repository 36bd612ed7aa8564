export { isList } from '../data/index.ts';
export type { FunctionCaller } from './caller.ts';
export { textOf } from './orchestrate/high-data.ts';
export { orderChunks } from './orchestrate/low-chunk.ts';
export { PeerPublisher, PeerRunner, toCall, type WordReader } from './peers.ts';
export { createServices, type Services, toFunctionsApi } from './services.ts';
