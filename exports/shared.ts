/**
 * `saltbridge/shared`: one master for several processes of a host.
 *
 * @packageDocumentation
 */

export {
  joinMaster,
  type SharedMaster,
  SharedMasterError,
  type SharedMasterErrorCode,
  type SharedMasterOptions,
  type SharedRole,
} from '../shared-master/index.ts';
