/** One master for several processes of a host. */
export { sharedMasterErrors } from './errors.ts';
export {
  type SharedMaster,
  type SharedMasterOptions,
  shareMaster,
} from './join-master.ts';
