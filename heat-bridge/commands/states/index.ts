/**
 * Compiles descriptions of a machine (packages, accounts, archives, files, commands and services)
 * to Salt states. The sources are `install:` of the catalog and `AWS::CloudFormation::Init`.
 */

export { compileStates } from './compile-states.ts';
export { ContentBudget } from './content-budget.ts';
export { fileBytes, modeOf } from './file-content.ts';
export {
  archiveFormatOf,
  commandOf,
  isTrue,
  requireAccount,
  requireEnvironment,
  requireId,
  requireKnownKeys,
  requireLinkTarget,
  requireMap,
  requireOwner,
  requirePackage,
  requirePath,
  requireService,
  requireText,
  requireTexts,
  requireUrl,
  requireVersion,
  shown,
} from './forms.ts';
export {
  type Archive,
  type Command,
  type Config,
  type ConfigFile,
  configError,
  type Package,
  type PackageManager,
  type PackageSet,
  type Service,
  type User,
} from './state-config.ts';
export type { CompiledStates } from './state-data.ts';
export {
  applyStatesCall,
  problemOfStates,
  reportOfStates,
  statesFunction,
  statesKey,
} from './state-run.ts';
