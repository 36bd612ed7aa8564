/** Shared master: several processes of a host use one master, which one of them runs. */
export { sharedMasterErrors } from './errors.ts';
export {
  type SharedMaster,
  type SharedMasterOptions,
  shareMaster,
} from './join-master.ts';
