export { ArgumentReader, isReaderBusy } from './argument-reader.ts';
export {
  type FunctionArguments,
  fromJson,
  isFunctionName,
  isKeywordText,
  keywordNameOf,
  markedForm,
  markedJson,
  maxPlainDepth,
  parseArgument,
  parseArguments,
  readMarkedJson,
  toJson,
  toPlainValue,
  writeMarkedJson,
} from './arguments.ts';
export { isPlainYamlText, parseYaml } from './yaml.ts';
