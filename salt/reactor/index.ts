export { openRunsPrefix } from './reaction-queue.ts';
export {
  createReactionCalls,
  createReactor,
  createReactorSls,
  jidOf,
  type Reactions,
  type TriggerEvent,
} from './reactions.ts';
export { type Chunk, chunksOf, FormError } from './reactor-files.ts';
