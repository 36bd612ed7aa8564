export {
  GrainReads,
  isPillarMap,
  type MergeOptions,
  mergeDeep,
  mergeOverride,
  type PillarMap,
  saltFunctions,
  TracedGrains,
} from './compile-pillar.ts';
export {
  type ExtPillar,
  type ExtPillarFilesOptions,
  type ExtPillarHttpOptions,
  type ExtPillarRequest,
  extPillarFiles,
  extPillarHttp,
} from './ext-pillar.ts';
export { type Mine, type MineQuery, type MineReader, type MineStore, openMine } from './mine.ts';
export {
  compiledOf,
  createPillarApi,
  isEmpty,
  type OwnPillar,
  openPillar,
  openPillarSource,
  type PillarSource,
  pillarRequestOf,
  Reads,
  renderMs,
} from './pillar.ts';
export { fromWire, toWire, toWirePillar } from './pillar-cache.ts';
export {
  findSls,
  PillarSources,
  pipeOf,
  SlsRenderer,
  type SlsRendering,
  type SourceFile,
} from './pillar-sources.ts';
export { EventText } from './render-template.ts';
export { type Imports, ParsedFileCache, type Rendered, Renderer } from './renderer.ts';
