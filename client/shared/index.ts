/** Shared master: several processes of a host use one master. One of these processes runs it. */
export { sharedMasterErrors } from './errors.ts';
export {
  type SharedMaster,
  type SharedMasterOptions,
  shareMaster,
} from './join-master.ts';
