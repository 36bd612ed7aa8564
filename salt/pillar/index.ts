export type { MineQuery, MineReader, MineStore } from '../mine/mine.ts';
export { EventText } from '../render/event-text.ts';
export type { Rendered } from '../render/render-task.ts';
export { type Imports, ParsedFileCache, Renderer } from '../render/renderer.ts';
export { saltFunctions } from '../render/template-functions.ts';
export { createData, type MinionData } from './data.ts';
export {
  type ExtPillar,
  extPillarFiles,
  extPillarHttp,
} from './ext-pillar.ts';
export type { GitPillarUpdater } from './git-pillar.ts';
export { GrainReads, TracedGrains } from './grains.ts';
export {
  compiledOf,
  type OwnPillar,
  openPillar,
  pillarRequestOf,
  renderMs,
} from './pillar.ts';
export {
  fromWire,
  isEmpty,
  isList,
  isPillarMap,
  type MergeOptions,
  mergeDeep,
  mergeOverride,
  mergePillar,
  type PillarMap,
  type PillarSource,
  type SourceFile,
  toWire,
  toWirePillar,
} from './pillar-data.ts';
export {
  findSls,
  PillarSources,
  pipeOf,
  Reads,
  SlsRenderer,
  type SlsRendering,
} from './pillar-sources.ts';
