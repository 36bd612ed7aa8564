/** What reads reactor files without an event. */

export { pipeOf } from '../render/pillar-sources.ts';
export { chunksOf, FormError } from './reactor-chunks.ts';
