/** Functions with which the configuration check parses reactor files. */

export { pipeOf } from '../render/render-pipe.ts';
export { chunksOf, FormError } from './reactor-chunks.ts';
