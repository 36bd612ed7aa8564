/** Exports that the configuration check uses to read reactor files without an event. */

export { pipeOf } from '../render/render-pipe.ts';
export { chunksOf, FormError } from './reactor-chunks.ts';
