/** Functions with which the configuration check reads reactor files without an event. */

export { pipeOf } from '../render/render-pipe.ts';
export { chunksOf, FormError } from './reactor-chunks.ts';
