/** One master for several processes of a host. */
export {
  SharedMasterError,
  type SharedMasterErrorCode,
  sharedMasterErrors,
} from './errors.ts';
export {
  joinMaster,
  type SharedMaster,
  type SharedMasterOptions,
  type SharedRole,
} from './join-master.ts';
