export { openRunsPrefix } from './reaction-queue.ts';
export { jidOf, openReactions, type Reactions, type TriggerEvent } from './reactions.ts';
export { type Chunk, chunksOf, FormError } from './reactor-files.ts';
