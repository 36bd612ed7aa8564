/**
 * Features for instances of OpenStack: software deployments with cfn-init, data spaces with peers,
 * the metadata agent, Heat templates and Murano. Each is an extension of the bridge.
 */

export {
  type Bridge,
  type BridgeExtensionName,
  checkBridgeOptions,
  createBridge,
  type LoadedCatalog,
  loadCatalog,
} from './create-bridge.ts';
export type { DataSpaceDetails } from './data-spaces/data-api.ts';
export type { DataSpaceInfo } from './data-spaces/data-spaces.ts';
export type { CollectConfig, OwnerLogin, StackInfo, StackServer } from './deployments/stacks.ts';
export type { DeploymentInfo, StackDetails } from './deployments/stacks-api.ts';
export { type HeatTemplates, loadHeatTemplates, loadMetadataAgent } from './programs.ts';
export type { CompiledTemplate, CompileOptions } from './templates/compile-template.ts';
export type { PreparedRoles } from './templates/prepared-roles.ts';
