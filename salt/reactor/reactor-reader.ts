/** Exports for reading reactor files without an event. */

export { pipeOf } from '../render/render-pipe.ts';
export { chunksOf, FormError } from './reactor-chunks.ts';
