"""The operators that each target takes, by name: lists as its makers give them, or as they were found by running.

It knows names and nothing else; where each list comes from is said in the table of targets. "By running" means that at
least one of ONNX's own test cases of the operator, or else a model of a few nodes, ran there with the right answer.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ORT_CUDA = _names(
    """
    Abs Add Affine And ArgMax ArgMin Attention AveragePool BatchNormalization Cast Ceil Clip Compress Concat
    ConcatFromSequence Constant ConstantOfShape Conv ConvTranspose Cos Crop CumSum DepthToSpace DequantizeLinear Div
    Dropout DynamicSlice Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND
    Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GridSample HardSigmoid HardSwish Identity If
    ImageScaler InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log
    LogSoftmax Loop MatMul MatMulInteger Max MaxPool Min Mod Mul Neg NonZero Not OneHot Or PRelu Pad
    ParametricSoftplus Pow QuantizeLinear RMSNormalization RNN RandomNormal RandomNormalLike RandomUniform
    RandomUniformLike Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign RotaryEmbedding Round
    ScaledTanh Scan Scatter ScatterElements ScatterND Selu SequenceAt SequenceConstruct SequenceEmpty SequenceErase
    SequenceInsert SequenceLength Shape Shrink Sigmoid Sign SimplifiedLayerNormalization Sin Size Slice Softmax
    Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tanh TensorScatter ThresholdedRelu Tile TopK Transpose
    Trilu Unsqueeze Upsample Where Xor
    """
)
"""ONNX Runtime, CUDA: ai.onnx operators with a kernel; Constant is none, but an initializer by then."""

ORT_CUDA_CONTRIB = _names(
    """
    Attention BiasAdd BiasDropout BiasGelu BiasSoftmax BiasSplitGelu DecoderAttention
    DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention DequantizeLinear EmbedLayerNormalization FastGelu
    FusedConv FusedMatMul GatedRelativePositionBias GatherBlockQuantized Gelu GridSample GroupNorm
    GroupQueryAttention Inverse Irfft LongformerAttention MatMulBnb4 MatMulNBits MoE MultiHeadAttention
    NGramRepeatBlock NhwcConv PackedAttention PackedMultiHeadAttention PagedAttention QAttention QMoE
    QOrderedAttention QOrderedGelu QOrderedLayerNormalization QOrderedMatMul QuantizeLinear QuickGelu
    RelativePositionBias RemovePadding RestorePadding Rfft RotaryEmbedding SkipGroupNorm SkipLayerNormalization
    SkipSimplifiedLayerNormalization SparseAttention TransposeMatMul Trilu UnfoldTensor
    """
)
"""The same: com.microsoft operators that concern networks at inference."""

OPENVINO = _names(
    """
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization
    BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast Ceil Celu CenterCropPad Clip Col2Im
    Compress Concat Constant ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumSum DFT DepthToSpace
    DequantizeLinear Div Dropout Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements
    GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization
    HammingWindow HannWindow HardSigmoid HardSwish Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax Loop LpNormalization LpPool MatMul MatMulInteger
    Max MaxPool Mean MeanVarianceNormalization Min Mish Mod Mul Neg NegativeLogLikelihoodLoss NonMaxSuppression
    NonZero Not OneHot Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN Range
    Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign RotaryEmbedding Round STFT Scan Scatter
    ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax SoftmaxCrossEntropyLoss
    Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tan Tanh ThresholdedRelu Tile TopK Transpose
    Trilu Unique Unsqueeze Upsample Where Xor
    """
)
"""OpenVINO 2026.4.1 on the CPU, by running."""

OPENCV = _names(
    """
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization
    BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast Ceil Celu CenterCropPad Clip Concat
    Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DFT DepthToSpace DequantizeLinear Det Div Dropout
    Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm
    GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HammingWindow HannWindow
    HardSigmoid HardSwish Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization
    LeakyRelu Less LessOrEqual Log LogSoftmax Loop LpNormalization MatMul Max MaxPool MaxUnpool Mean Min Mish Mod
    Mul Neg NegativeLogLikelihoodLoss NonMaxSuppression NonZero Not OneHot Or PRelu Pad Pow QLinearConv
    QLinearMatMul QuantizeLinear RMSNormalization Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize RoiAlign RotaryEmbedding
    Round Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax
    SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tan Tanh ThresholdedRelu
    Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where Xor
    """
)
"""OpenCV 5.0.0's own engine, by running."""

MNN = _names(
    """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Cast Ceil Celu Clip
    Compress Concat Constant Conv ConvTranspose Cos Cosh CumSum DepthToSpace Det Div Dropout Einsum Elu Equal Erf
    Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool
    Greater GreaterOrEqual GridSample HardSigmoid HardSwish Identity If InstanceNormalization LRN LSTM
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool MatMul Max MaxPool MaxUnpool
    Mean MeanVarianceNormalization Min Mul Neg NegativeLogLikelihoodLoss NonMaxSuppression Not Or PRelu Pad Pow RNN
    Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign Round STFT Scatter ScatterElements ScatterND Selu
    Shape Sigmoid Sign Sin Sinh Size Slice Softmax SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split Sqrt
    Squeeze Sub Sum Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where Xor
    """
)
"""MNN 3.6.1 on the CPU, by running; ConstantOfShape, Mod and OneHot ran there with wrong answers."""

TRACT = _names(
    """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization BitShift
    BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast Ceil Celu Clip Concat Constant ConstantOfShape Conv
    ConvTranspose Cos Cosh CumSum DFT DepthToSpace DequantizeLinear Div Dropout Einsum Elu Equal Erf Exp Expand
    EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater
    GreaterOrEqual GridSample GroupNormalization HardSigmoid HardSwish Hardmax Identity If InstanceNormalization
    IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization MatMul
    MatMulInteger Max MaxPool Mean MeanVarianceNormalization Min Mish Mod Mul Neg NonMaxSuppression NonZero Not
    OneHot Or PRelu Pad Pow QLinearMatMul QuantizeLinear RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2
    ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape
    Resize RotaryEmbedding Round STFT Scan Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh
    Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Swish Tan Tanh ThresholdedRelu Tile
    TopK Transpose Trilu Unsqueeze Where Xor
    """
)
"""tract 0.23.9, by running."""

TENSORRT = _names(
    """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Cast Ceil Celu Clip
    Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DepthToSpace DequantizeLinear Div Dropout
    Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gemm GlobalAveragePool
    GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample HardSigmoid HardSwish Identity If ImageScaler
    InstanceNormalization IsNaN LRN LSTM LeakyRelu Less LessOrEqual Log LogSoftmax Loop LpNormalization LpPool
    MatMul Max MaxPool Mean MeanVarianceNormalization Min Mod Mul Neg NonMaxSuppression NonZero Not OneHot Or PRelu
    Pad ParametricSoftplus Pow QuantizeLinear RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike
    Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign Round ScaledTanh Scan Scatter
    ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign
    SpaceToDepth Split Sqrt Squeeze Sub Sum Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample
    Where Xor
    """
)
"""TensorRT 8.5; its parser's list."""

COREML = _names(
    """
    Add ArgMax AveragePool Cast Ceil Clip Concat Constant Conv ConvTranspose Cos DepthToSpace Div Elu Erf Exp
    GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool GridSample GroupNormalization HardSigmoid Identity
    InstanceNormalization LayerNormalization LeakyRelu MatMul Max MaxPool Mul PRelu Pow Range Reciprocal ReduceMax
    ReduceMean ReduceSum Relu Reshape Resize Round Shape Sigmoid Sin Slice Softmax Softplus Split Sqrt Squeeze Sub
    Tanh Tile Transpose Unsqueeze
    """
)
"""ONNX Runtime, CoreML with ML programs; a Constant is an initializer by then."""

QNN = _names(
    """
    Abs Add And ArgMax ArgMin Asin Atan AveragePool BatchNormalization Cast Ceil Clip Concat Constant Conv
    ConvTranspose Cos CumSum DepthToSpace DequantizeLinear Div Einsum Elu Equal Exp Expand Flatten Floor Gather
    GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GridSample
    GroupNormalization HardSigmoid HardSwish Identity InstanceNormalization Inverse IsNaN LRN LSTM
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization MatMul Max MaxPool Mean Min Mod Mul
    Neg NonZero Not Or PRelu Pad Pow QuantizeLinear RMSNormalization RandomNormalLike RandomUniformLike Reciprocal
    ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Relu Reshape Resize RoiAlign RotaryEmbedding Round
    STFT ScatterElements ScatterND Sigmoid Sign Sin Slice Softmax Softplus SpaceToDepth Split Sqrt Squeeze Sub Sum
    Tan Tanh ThresholdedRelu Tile TopK Transpose Unsqueeze Upsample Where
    """
)
"""ONNX Runtime, QNN; without what it takes inside a fused pattern only, and with Constant as above."""

QNN_CONTRIB = _names(
    """
    DequantizeLinear FusedMatMul Gelu MatMulNBits QuantizeLinear QuickGelu RotaryEmbedding
    SimplifiedLayerNormalization
    """
)
"""The same: com.microsoft operators."""

RKNN = _names(
    """
    Add ArgMax ArgMin AveragePool BatchNormalization Cast Clip Concat Constant ConstantOfShape Conv ConvTranspose
    Cos DepthToSpace DequantizeLinear Div Dropout Elu Equal Exp EyeLike Flatten GRU Gather Gemm GlobalAveragePool
    GlobalMaxPool Greater GreaterOrEqual HardSigmoid HardSwish Identity If InstanceNormalization LRN LSTM LeakyRelu
    Less LessOrEqual LogSoftmax LpNormalization MatMul Max MaxPool MaxRoiPool MaxUnpool Min Mul PRelu Pad Pow
    QuantizeLinear ReduceMax ReduceMean ReduceMin ReduceSum Relu Reshape Resize ReverseSequence RoiAlign ScatterND
    Shape Sigmoid Sin Size Slice Softmax Softplus SpaceToDepth Split Sqrt Squeeze Sub Tanh Tile Transpose Unsqueeze
    Where
    """
)
"""RKNN-Toolkit2 1.6.0; those without "Not Supported"."""
